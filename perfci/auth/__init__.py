"""Who may do what: pure checks over stored values, with no database, no request and no clock of their own."""
