"""The Slack assistant: answers questions that people ask the app in Slack, in their thread."""
