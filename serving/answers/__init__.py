"""Answers to questions, with the sentences and quotes that support them, their history, sharing and feedback.

The room offers `Answers`, to which every interface translates its questions.
"""
