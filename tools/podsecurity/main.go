// Command podsecurity reads manifests and says which pods in them the pod security standard
// "restricted" forbids, by the code of Kubernetes' own admission.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	if err := check(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(manifests io.Reader) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	pods, documents := 0, yaml.NewYAMLOrJSONDecoder(manifests, 4096)
	for {
		var workload appsv1.Deployment // a StatefulSet has its pod at the same place
		if err := documents.Decode(&workload); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		pod := workload.Spec.Template
		if len(pod.Spec.Containers) == 0 {
			continue
		}
		pods++
		results := evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)
		if sum := policy.AggregateCheckResults(results); !sum.Allowed {
			return fmt.Errorf("%s %s: %s", workload.Kind, workload.Name, sum.ForbiddenDetail())
		}
	}
	if pods == 0 {
		return errors.New("the manifests have no pod")
	}
	fmt.Printf("%d pod: allowed by the standard restricted\n", pods)
	return nil
}
