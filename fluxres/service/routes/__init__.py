"""The routes: a POST for each method that changes or asks, under the name of the method, and a GET for each list."""
