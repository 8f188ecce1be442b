package client

//go:generate go run ../../cmd/ledgerfeed openapi -o openapi.json
//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml openapi.json
//go:generate python3 python/generate.py openapi.json python/ledgerfeed
//go:generate rm openapi.json
