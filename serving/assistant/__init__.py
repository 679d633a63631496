"""The assistant in Slack: it claims questions that were stored, answers them, and keeps ratings.

It runs in one process of the service, and posts what the answers room returns.
"""
