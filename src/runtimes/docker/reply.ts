/**
 * The parts of the Docker Engine API's answers that we rely on. Podman sends fewer fields, and Docker omits empty
 * fields or sends null, so every optional field has a default.
 */
import { z } from 'zod'

const listOf = <T extends z.ZodType>(item: T) =>
  z
    .array(item)
    .nullish()
    .transform((items) => items ?? [])

const recordOf = <T extends z.ZodType>(item: T) =>
  z
    .record(z.string(), item)
    .nullish()
    .transform((record) => record ?? {})

export const versionReply = z.object({
  Version: z.string().catch('unknown'),
  ApiVersion: z.string(),
  MinAPIVersion: z.string().optional(),
})

export const infoReply = z.object({
  NCPU: z.number().positive(),
  MemTotal: z.number().positive(),
  Driver: z.string().catch(''),
  DriverStatus: listOf(z.tuple([z.string(), z.string()])).catch([]),
  DockerRootDir: z.string().catch(''),
  ServerVersion: z.string().catch('unknown'),
  SystemTime: z.string().optional(),
  SecurityOptions: listOf(z.string()).catch([]),
  Runtimes: recordOf(z.unknown()),
  /** Docker 25 and newer, with CDI enabled. */
  CDISpecDirs: listOf(z.string()),
  /** Docker 28.2 and newer. */
  DiscoveredDevices: listOf(z.object({ Source: z.string().optional(), ID: z.string() })),
})
export type Info = z.output<typeof infoReply>

export const containerListReply = z.array(
  z.object({
    Id: z.string().min(1),
    State: z.string(),
    ImageID: z.string().catch(''),
    Labels: recordOf(z.string()),
    Mounts: listOf(z.object({ Type: z.string().optional(), Name: z.string().optional() })),
  }),
)
export type ListedContainer = z.output<typeof containerListReply>[number]

export const containerReply = z.object({
  Id: z.string().min(1),
  State: z.object({
    Status: z.string(),
    OOMKilled: z.boolean().catch(false),
    ExitCode: z.number().catch(0),
    Error: z.string().catch(''),
    FinishedAt: z.string().catch(''),
    StartedAt: z.string().catch(''),
    Pid: z.number().catch(0),
  }),
  Config: z.object({ Labels: recordOf(z.string()), Image: z.string().catch('') }),
  HostConfig: z
    .object({ NanoCpus: z.number().catch(0), Memory: z.number().catch(0) })
    .catch({ NanoCpus: 0, Memory: 0 }),
  /** Programs started in it, including some that have just ended. */
  ExecIDs: listOf(z.string()).catch([]),
  /** The container's writable layer, if the storage driver uses a folder. */
  GraphDriver: z
    .object({ Data: recordOf(z.string()) })
    .nullish()
    .catch(undefined),
  /** Files mounted into it that can be written from inside. */
  HostsPath: z.string().catch(''),
  HostnamePath: z.string().catch(''),
  ResolvConfPath: z.string().catch(''),
  LogPath: z.string().catch(''),
  Mounts: listOf(
    z.object({
      Type: z.string().optional(),
      Source: z.string().optional(),
      Name: z.string().optional(),
      Destination: z.string().optional(),
    }),
  ).catch([]),
  NetworkSettings: z.object({
    Ports: recordOf(listOf(z.object({ HostIp: z.string(), HostPort: z.string() }))),
    Networks: recordOf(z.object({ IPAddress: z.string().catch('') })),
  }),
})
export type Container = z.output<typeof containerReply>

const count = z.number().nullish().catch(null)

/** Podman omits parts; cgroup v1 and v2 name the page cache differently. */
export const statsReply = z.object({
  cpu_stats: z.object({ cpu_usage: z.object({ total_usage: count }).catch({ total_usage: null }) }).optional(),
  memory_stats: z
    .object({ usage: count, limit: count, stats: recordOf(z.number()).catch({}) })
    .optional()
    .catch(undefined),
  networks: recordOf(z.object({ rx_bytes: z.number().catch(0), tx_bytes: z.number().catch(0) })).catch({}),
})
export type Stats = z.output<typeof statsReply>

export const sizeReply = z.object({ SizeRw: z.number().catch(0) })

export const networkListReply = z.array(
  z.object({ Id: z.string().min(1), Name: z.string(), Labels: recordOf(z.string()) }),
)

export const imageListReply = z.array(z.object({ RepoTags: z.array(z.string()).nullish() }))

export const imageReply = z.object({
  Id: z.string().min(1),
  /** Unpacked. */
  Size: z.number().catch(0),
  RepoTags: listOf(z.string()),
  Config: z
    .object({ Entrypoint: listOf(z.string()), Cmd: listOf(z.string()), User: z.string().catch('') })
    .catch({ Entrypoint: [], Cmd: [], User: '' }),
  RootFS: z.object({ Layers: listOf(z.string()) }),
})

export const volumeListReply = z.object({ Volumes: listOf(z.object({ Name: z.string() })) })

export const createReply = z.object({ Id: z.string().min(1) })

export const execReply = z.object({
  Running: z.boolean(),
  ExitCode: z
    .number()
    .nullish()
    .transform((code) => code ?? undefined),
})

export const usageReply = z.object({
  Volumes: listOf(z.object({ Name: z.string(), UsageData: z.object({ Size: z.number() }).nullish() })),
})

export const faultReply = z.object({ message: z.string() })

/** One line of a pull. */
export const pullLine = z.object({
  status: z.string().optional(),
  id: z.string().optional(),
  progressDetail: z
    .object({ current: z.number().optional(), total: z.number().optional() })
    .nullish()
    .transform((detail) => detail ?? {}),
  error: z.string().optional(),
})
export type PullLine = z.output<typeof pullLine>
