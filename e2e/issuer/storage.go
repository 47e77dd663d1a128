package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// person is what the issuer says about a person.
type person struct {
	Email  string   `json:"email"`
	Groups []string `json:"groups"`
	Tenant string   `json:"tenant"`
}

// storage has the people, the client, and the requests in progress.
type storage struct {
	client client
	people map[string]person

	mu       sync.Mutex
	requests map[string]*request // by id
	codes    map[string]string   // to the id of the request
	access   map[string]string   // to the subject
	keys     []*key              // the last one signs; all are published
}

var errUnknown = errors.New("unknown")

func newStorage(id, secret, people string) (*storage, error) {
	s := &storage{client: client{id: id, secret: secret},
		requests: map[string]*request{}, codes: map[string]string{}, access: map[string]string{}}
	if err := json.Unmarshal([]byte(people), &s.people); err != nil {
		return nil, fmt.Errorf("-people: %w", err)
	}
	return s, s.rotate("RS256")
}

func (s *storage) names() []string { return slices.Sorted(maps.Keys(s.people)) }

// allow sets where the client may be answered, and where browsers may go after signing out.
func (s *storage) allow(redirect, after string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client.redirects, s.client.after = []string{redirect}, []string{after}
}

// rotate makes another key sign, of which the clients have not heard. The former key is withdrawn.
func (s *storage) rotate(alg string) error {
	var private crypto.Signer
	var err error
	switch alg {
	case "RS256":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ES256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "EdDSA":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("no algorithm %q", alg)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = []*key{{id: rand.Text(), alg: jose.SignatureAlgorithm(alg), private: private}}
	return nil
}

// signIn says who the person of a request is.
func (s *storage) signIn(id, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.requests[id]
	if _, is := s.people[name]; !known || !is {
		return errUnknown
	}
	r.subject, r.at = name, time.Now()
	return nil
}

// CreateAuthRequest and the methods after it are those of op.Storage.
func (s *storage) CreateAuthRequest(_ context.Context, asked *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &request{id: rand.Text(), asked: *asked}
	s.requests[r.id] = r
	return r, nil
}

// AuthRequestByID gives a copy, so that no reader sees half of a change.
func (s *storage) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.requests[id]
	if !known {
		return nil, errUnknown
	}
	is := *r
	return &is, nil
}

func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	id := s.codes[code]
	delete(s.codes, code)
	s.mu.Unlock()
	return s.AuthRequestByID(ctx, id)
}

func (s *storage) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = id
	return nil
}

func (s *storage) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, id)
	return nil
}

func (s *storage) CreateAccessToken(_ context.Context, r op.TokenRequest) (string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := rand.Text()
	s.access[id] = r.GetSubject()
	return id, time.Now().Add(time.Minute), nil
}

func (s *storage) CreateAccessAndRefreshTokens(context.Context, op.TokenRequest, string) (string, string, time.Time, error) {
	return "", "", time.Time{}, errUnknown
}

func (s *storage) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, errUnknown
}

func (s *storage) TerminateSession(context.Context, string, string) error { return nil }

func (s *storage) RevokeToken(context.Context, string, string, string) *oidc.Error { return nil }

func (s *storage) GetRefreshTokenInfo(context.Context, string, string) (string, string, error) {
	return "", "", op.ErrInvalidRefreshToken
}

func (s *storage) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return signing{s.keys[len(s.keys)-1]}, nil
}

func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}, nil
}

func (s *storage) KeySet(context.Context) (all []op.Key, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		all = append(all, published{k})
	}
	return all, nil
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.client.id {
		return nil, errUnknown
	}
	is := s.client
	return &is, nil
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	if id != s.client.id || secret != s.client.secret {
		return errUnknown
	}
	return nil
}

// SetUserinfoFromScopes is for the ID token. The other claims are told at the userinfo endpoint, as
// the standard says.
func (s *storage) SetUserinfoFromScopes(_ context.Context, info *oidc.UserInfo, subject, _ string, _ []string) error {
	info.Subject = subject
	return nil
}

func (s *storage) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, token, _, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	subject, known := s.access[token]
	if !known {
		return errUnknown
	}
	p := s.people[subject]
	info.Subject, info.Email, info.EmailVerified = subject, p.Email, p.Email != ""
	info.Claims = map[string]any{"groups": p.Groups}
	if p.Tenant != "" {
		info.Claims["tenant"] = p.Tenant
	}
	return nil
}

func (s *storage) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errUnknown
}

func (s *storage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}

func (s *storage) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errUnknown
}

func (s *storage) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errUnknown
}

func (s *storage) Health(context.Context) error { return nil }
