"""What the kubelet gave to containers: pod-resources v1 over its unix socket. The only source that speaks gRPC."""
