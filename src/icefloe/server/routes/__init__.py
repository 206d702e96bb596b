"""One module per noun of the API. A route reads the request, calls the service layer, and gives back its answer."""
