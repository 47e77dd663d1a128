package grapnel

// Lane is one key's line at one endpoint, as it stands.
type Lane struct {
	Endpoint string
	Key      string
	Head     Delivery // without its attempts
	Waiting  int      // deliveries behind the head
}
