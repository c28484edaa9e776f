"""Network access: HTTP and SMTP, the upload spool, the typed API client and its schemas."""
