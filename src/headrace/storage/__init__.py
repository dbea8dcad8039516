"""Rows on disk: Arrow files beside a page of JSON each, whole or not there at all."""
