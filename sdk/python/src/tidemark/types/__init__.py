"""Types of the bodies and answers of the calls, as the services describe them in `/openapi.json`."""
