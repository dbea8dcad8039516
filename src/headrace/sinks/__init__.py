"""Where rows end up."""
