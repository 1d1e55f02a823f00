"""Graphs for programs that draw or edit them: GraphML, node-link JSON, DOT."""
