/** The PersistentVolumeClaim of a Berth volume, and the pod that makes a cluster bind it before the first rental. */
import type { ClusterConfig } from './config.ts'
import { ACCOUNT_LABEL, accountLabel, MANAGED_LABEL, MANAGER, podNameOf, TAG_ANNOTATION } from './names.ts'

const BYTES_PER_GB = 1_000_000_000
const LABEL_ANNOTATION = 'berth/label'
const PRODUCT_LABEL = 'nvidia.com/gpu.product'
const NOBODY = 65_534

export interface ClaimOrder {
  readonly tag: string
  readonly label: string
  readonly sizeGb: number
  readonly accountId: string
  readonly namespace: string
  readonly storage: NonNullable<ClusterConfig['storage']>
}

export function claimNameOf(tag: string): string {
  return podNameOf(tag)
}

export function bindPodName(claim: string): string {
  return `${claim.slice(0, 58)}-bind`
}

export function storageQuantity(sizeGb: number): string {
  return String(sizeGb * BYTES_PER_GB)
}

export function claimObject({ tag, label, sizeGb, accountId, namespace, storage }: ClaimOrder) {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: claimNameOf(tag),
      namespace,
      labels: { [MANAGED_LABEL]: MANAGER, [ACCOUNT_LABEL]: accountLabel(accountId) },
      annotations: { [TAG_ANNOTATION]: tag, [LABEL_ANNOTATION]: label },
    },
    spec: {
      accessModes: [storage.accessMode],
      storageClassName: storage.class,
      resources: { requests: { storage: storageQuantity(sizeGb) } },
    },
  }
}

/**
 * A storage class that waits for its first pod creates nothing before one is scheduled, but a volume is billed from the
 * moment it exists. The scheduler has the storage created before it assigns the node, so this pod never has to run: its
 * image does not exist, and it is removed as soon as the claim is bound.
 */
export function bindPod(
  claim: string,
  namespace: string,
  node: string | undefined,
  { gpuResource, nodeSelector }: ClusterConfig,
) {
  const terms =
    node === undefined
      ? [{ matchExpressions: [{ key: PRODUCT_LABEL, operator: 'Exists' }] }]
      : [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }]
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: bindPodName(claim), namespace, labels: { [MANAGED_LABEL]: MANAGER } },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 1,
      nodeSelector,
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
      tolerations: [{ key: gpuResource, operator: 'Exists' }],
      securityContext: { runAsNonRoot: true, runAsUser: NOBODY, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'bind',
          image: 'berth.invalid/bind',
          imagePullPolicy: 'Never',
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          resources: { requests: { cpu: '1m', memory: '1Mi' }, limits: { cpu: '1m', memory: '16Mi' } },
        },
      ],
      volumes: [{ name: 'volume', persistentVolumeClaim: { claimName: claim } }],
    },
  }
}
