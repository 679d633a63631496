"""The running set: the supervisor and the services that it starts, checks and restarts."""
