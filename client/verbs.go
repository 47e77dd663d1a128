package client

import (
	"context"
	"net/http"
	"net/url"
)

// at is the path of an object of a list, or of a part of it. Ids and names are escaped.
func at(list string, parts ...string) string {
	for _, part := range parts {
		list += "/" + url.PathEscape(part)
	}
	return list
}

// get, post and patch are the three shapes of a call that answers with an object.

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (*T, error) {
	return answered[T](ctx, c, call{method: http.MethodGet, path: path, query: q})
}

func post[T any](ctx context.Context, c *Client, path string, in any) (*T, error) {
	return answered[T](ctx, c, call{method: http.MethodPost, path: path, in: in})
}

func patch[T any](ctx context.Context, c *Client, path string, q url.Values, changes any) (*T, error) {
	return answered[T](ctx, c, call{method: http.MethodPatch, path: path, query: q, in: changes})
}

// answered makes a call and returns the object of its answer.
func answered[T any](ctx context.Context, c *Client, rq call) (*T, error) {
	out := new(T)
	rq.out = out
	if err := c.do(ctx, rq); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Client) remove(ctx context.Context, path string, q url.Values) error {
	return c.Do(ctx, http.MethodDelete, path, q, nil, nil)
}
