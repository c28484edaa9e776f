"""Notifications: enqueue them, deliver them, and manage where they go."""
