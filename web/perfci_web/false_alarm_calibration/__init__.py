"""How often verdicts were wrong, and the noise floors."""
