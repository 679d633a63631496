"""The widget that other sites embed: its script, the tokens of its anonymous visitors, and the limits on their questions.

The room offers `Widgets`; an answer for a visitor holds nothing but what is public.
"""
