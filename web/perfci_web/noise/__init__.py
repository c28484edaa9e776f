"""The page of noise: how often alarms are false, and the noise floor of each series."""
