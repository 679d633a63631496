"""The pipeline's stages and the Dagster assets around them, and the upkeep of what they write.

Imports resources and sql; nothing of orchestration or serving.
"""
