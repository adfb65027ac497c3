"""The only client of the Kubernetes API: pods of this node by list and watch, owners, namespaces and the node by look-up."""
