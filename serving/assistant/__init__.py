"""The Slack assistant: answers questions that people ask the app in Slack, in their thread.

Events are not received here but in `serving.slack_events`, and answers are made in `serving.answers`.
"""
