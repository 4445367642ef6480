"""Selective state spaces (arXiv:2312.00752): the mixer that pure and hybrid models share."""
