"""``perfci incidents``: list, change and mute incidents, and say where their messages go."""
