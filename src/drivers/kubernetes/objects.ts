/** The parts of Kubernetes objects that Berth reads. Unknown fields are ignored. */
import { z } from 'zod'

const texts = z.record(z.string(), z.string())
const metadata = z.object({
  name: z.string(),
  namespace: z.string().optional(),
  uid: z.string().optional(),
  resourceVersion: z.string().optional(),
  creationTimestamp: z.string().optional(),
  deletionTimestamp: z.string().optional(),
  labels: texts.optional(),
  annotations: texts.optional(),
})

const condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().optional(),
  message: z.string().optional(),
  lastHeartbeatTime: z.string().nullish(),
  lastTransitionTime: z.string().nullish(),
})

export const nodeObject = z.object({
  metadata,
  spec: z
    .object({
      unschedulable: z.boolean().optional(),
      taints: z.array(z.object({ key: z.string(), value: z.string().optional(), effect: z.string() })).optional(),
    })
    .optional(),
  status: z
    .object({
      capacity: texts.optional(),
      allocatable: texts.optional(),
      conditions: z.array(condition).optional(),
      nodeInfo: z.object({ architecture: z.string().optional() }).optional(),
    })
    .optional(),
})
export type NodeObject = z.output<typeof nodeObject>

const containerState = z.object({
  waiting: z.object({ reason: z.string().optional(), message: z.string().optional() }).optional(),
  running: z.object({ startedAt: z.string().nullish() }).optional(),
  terminated: z
    .object({
      exitCode: z.number(),
      reason: z.string().optional(),
      message: z.string().optional(),
      startedAt: z.string().nullish(),
      finishedAt: z.string().nullish(),
    })
    .optional(),
})

const containerStatus = z.object({
  name: z.string(),
  restartCount: z.number().default(0),
  containerID: z.string().optional(),
  state: containerState.optional(),
  lastState: containerState.optional(),
})

export const podObject = z.object({
  metadata,
  spec: z
    .object({
      nodeName: z.string().optional(),
      restartPolicy: z.string().optional(),
      volumes: z.array(z.object({ persistentVolumeClaim: z.object({ claimName: z.string() }).optional() })).optional(),
      containers: z
        .array(z.object({ name: z.string(), resources: z.object({ requests: texts.optional() }).optional() }))
        .default([]),
      initContainers: z
        .array(
          z.object({
            name: z.string(),
            restartPolicy: z.string().optional(),
            resources: z.object({ requests: texts.optional() }).optional(),
          }),
        )
        .optional(),
    })
    .optional(),
  status: z
    .object({
      phase: z.string().optional(),
      reason: z.string().optional(),
      message: z.string().optional(),
      podIP: z.string().optional(),
      conditions: z.array(condition).optional(),
      containerStatuses: z.array(containerStatus).optional(),
      initContainerStatuses: z.array(containerStatus).optional(),
    })
    .optional(),
})
export type PodObject = z.output<typeof podObject>

export const claimStatus = z.object({
  metadata,
  spec: z
    .object({
      storageClassName: z.string().optional(),
      accessModes: z.array(z.string()).optional(),
      resources: z.object({ requests: texts.optional() }).optional(),
    })
    .optional(),
  status: z
    .object({
      phase: z.string().optional(),
      capacity: texts.optional(),
      conditions: z.array(condition).optional(),
      allocatedResourceStatuses: texts.optional(),
    })
    .optional(),
})
export type ClaimObject = z.output<typeof claimStatus>

export const storageClassObject = z.object({
  metadata,
  allowVolumeExpansion: z.boolean().optional(),
  volumeBindingMode: z.string().optional(),
})

/** Any object, of which only the metadata counts. */
export const anyObject = z.object({ metadata })
export const resourceSlice = z.object({
  metadata,
  spec: z.object({
    driver: z.string(),
    nodeName: z.string().optional(),
    pool: z.object({ name: z.string(), generation: z.number(), resourceSliceCount: z.number() }),
    devices: z
      .array(
        z.object({
          name: z.string(),
          attributes: z.record(z.string(), z.object({ string: z.string().optional() })).optional(),
          capacity: z.record(z.string(), z.object({ value: z.string() })).optional(),
          taints: z.array(z.object({ effect: z.string() })).optional(),
        }),
      )
      .nullish(),
  }),
})
export type ResourceSliceObject = z.output<typeof resourceSlice>

export const resourceClaimObject = z.object({
  metadata,
  status: z
    .object({
      allocation: z
        .object({
          devices: z
            .object({
              results: z
                .array(
                  z.object({
                    driver: z.string(),
                    pool: z.string(),
                    device: z.string(),
                    adminAccess: z.boolean().nullish(),
                  }),
                )
                .optional(),
            })
            .optional(),
        })
        .optional(),
    })
    .optional(),
})
export type ResourceClaimObject = z.output<typeof resourceClaimObject>

/** An object of KubeVirt. */
export const virtualMachineObject = z.object({
  metadata,
  status: z
    .object({
      printableStatus: z.string().optional(),
      conditions: z.array(condition).optional(),
    })
    .optional(),
})
export type VirtualMachineObject = z.output<typeof virtualMachineObject>

export const virtualMachineInstance = z.object({
  metadata,
  status: z
    .object({
      phase: z.string().optional(),
      nodeName: z.string().optional(),
      interfaces: z.array(z.object({ ipAddress: z.string().optional() })).optional(),
    })
    .optional(),
})
export type VirtualMachineInstanceObject = z.output<typeof virtualMachineInstance>

export const podMetrics = z.object({
  metadata,
  containers: z.array(z.object({ name: z.string(), usage: texts })),
})
export const leaseObject = z.object({ metadata, spec: z.object({ renewTime: z.string().nullish() }).optional() })
export const versionObject = z.object({ gitVersion: z.string() })

export const listHead = z.object({
  metadata: z.object({ resourceVersion: z.string().default(''), continue: z.string().optional() }),
  items: z.array(z.unknown()).nullish(),
})

export const watchEvent = z.object({
  type: z.enum(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']),
  object: z.unknown(),
})

export const statusObject = z.object({
  message: z.string().optional(),
  reason: z.string().optional(),
  code: z.number().optional(),
  details: z
    .object({ causes: z.array(z.object({ reason: z.string().optional(), message: z.string().optional() })).optional() })
    .nullish(),
  status: z.string().optional(),
})
