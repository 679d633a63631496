"""Agents: connecting programs by OAuth, and the tools that they call by the Model Context Protocol.

The room offers `AgentServices`; its tools call the search, the answers and the documents as any other interface does.
"""
