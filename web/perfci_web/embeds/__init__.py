"""Pictures of public projects for pages elsewhere: badges and charts."""
