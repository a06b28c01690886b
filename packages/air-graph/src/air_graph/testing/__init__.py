"""Random programs and call sequences, judged by eager PyTorch: the differential tester of a compile backend."""
