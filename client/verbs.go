package client

import (
	"context"
	"net/http"
	"net/url"
)

// get, post and patch are the three shapes of a call that answers with an object.

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (*T, error) {
	out := new(T)
	return orNil(out, c.Do(ctx, http.MethodGet, path, q, nil, out))
}

func post[T any](ctx context.Context, c *Client, path string, in any) (*T, error) {
	out := new(T)
	return orNil(out, c.Do(ctx, http.MethodPost, path, nil, in, out))
}

func patch[T any](ctx context.Context, c *Client, path string, q url.Values, changes any) (*T, error) {
	out := new(T)
	return orNil(out, c.Do(ctx, http.MethodPatch, path, q, changes, out))
}

func (c *Client) remove(ctx context.Context, path string, q url.Values) error {
	return c.Do(ctx, http.MethodDelete, path, q, nil, nil)
}

func orNil[T any](out *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}
