package main

import "context"

func (s *service) prepareAPI(context.Context) error { return nil }
