package grapnel

// Lane is the sequence of one key's deliveries at one endpoint, as of now.
type Lane struct {
	Endpoint string
	Key      string
	Head     Delivery // without its attempts
	Waiting  int      // deliveries behind the head
}
