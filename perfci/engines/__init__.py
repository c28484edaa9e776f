"""Engines that carry out measurement orders; the local one measures on this machine."""
