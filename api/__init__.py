"""Web service and command line."""
