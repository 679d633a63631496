"""Answers to questions from retrieved passages, with citations that are checked. Passages come from `serving.retrieval` alone."""
