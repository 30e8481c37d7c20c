/**
 * Options of an order: what runs on the machine, and when it stops. The same names in every create and in templates.
 * Values with `{{ secrets.NAME }}` refer to secrets of the account; they are resolved only on the machine's host.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { compileCache } from './compile-cache.ts'
import { hasNoDots, mountPath } from './mount-path.ts'
import { nonNegativeUsd, positiveId, time } from './shared.ts'
import { weights } from './weights.ts'

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length
}

export const environmentName = z
  .string()
  .max(limits.nameChars)
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'Must be letters, digits and underscores, not starting with a digit')
  .refine((name) => !isReservedVariable(name), 'Must not be NVIDIA_VISIBLE_DEVICES or begin with BERTH_')

/** Variables that the host sets. */
export function isReservedVariable(name: string): boolean {
  return name === 'NVIDIA_VISIBLE_DEVICES' || name.startsWith('BERTH_')
}

const environment = z
  .record(environmentName, z.string().max(limits.workloadTextBytes))
  .refine((env) => Object.keys(env).length <= limits.environmentVariables, {
    message: `Must have at most ${limits.environmentVariables} variables`,
  })
  .refine(
    (env) =>
      Object.entries(env).reduce((sum, [name, value]) => sum + utf8Bytes(name) + utf8Bytes(value), 0) <=
      limits.environmentBytes,
    { message: `Must have at most ${limits.environmentBytes} bytes in total` },
  )

/** A path inside the machine. */
const machinePath = z
  .string()
  .max(1_000)
  .regex(/^(\/[^/\0]+)+$/, 'Must be an absolute path without a trailing slash')
  .refine(hasNoDots, 'Must not contain . or ..')

export const secretName = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_-]{0,99}$/,
    'Must start with a letter or underscore and have only letters, digits, underscores and hyphens, at most 100 characters',
  )

const file = z.strictObject({
  path: machinePath,
  content: z.string().max(limits.workloadTextBytes).describe('May contain `{{ secrets.NAME }}`'),
  mode: z
    .string()
    .regex(/^0[0-7]{3}$/, 'Must be octal, such as 0600')
    .optional()
    .describe('Permissions in octal; default: 0644, or 0600 with a secret'),
})

/** If several files have the same path, the last one counts. */
const files = z
  .array(file)
  .max(limits.workloadFiles)
  .refine((all) => all.reduce((sum, { content }) => sum + utf8Bytes(content), 0) <= limits.workloadFileBytes, {
    message: `Must have at most ${limits.workloadFileBytes} bytes in total`,
  })

const commandWords = z.array(z.string().max(limits.commandWordChars)).max(limits.commandWords)

const portNumber = z.int().min(1).max(65_535)
export const portProtocol = z.enum(['http', 'tcp', 'udp'])
export const portAccess = z.enum(['private', 'public'])

const portObject = z.strictObject({
  port: portNumber,
  protocol: portProtocol.default('tcp'),
  access: portAccess
    .default('private')
    .describe('Of an `http` port: `private` needs a sign-in or a token. Other ports are always open'),
  healthPath: z
    .string()
    .max(500)
    .regex(/^\/[\x21-\x7e]*$/, 'Must be a path such as /health')
    .optional()
    .describe('Path that answers with a status below 400 once the application is ready; `http` only'),
})

/** `8888`, `"8888/http"`, or an object. A number is a TCP port. */
const workloadPort = z.union([
  portNumber,
  z
    .string()
    .regex(
      /^(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])\/(http|tcp|udp)$/,
      'Must be like 8888/http',
    ),
  portObject,
])
export const workloadPorts = z.array(workloadPort).max(limits.customPorts)
export type WorkloadPortInput = z.input<typeof workloadPort>

const restartPolicy = z.strictObject({
  policy: z.enum(['never', 'on-failure', 'always']),
  maxRetries: z.int().min(0).max(100).default(3).describe('In a row; ignored for `never`'),
})

export const idleRule = z.strictObject({
  afterMinutes: z.int().min(5).max(10_080).describe('Minutes without activity'),
  gpuUtilBelowPercent: z.number().min(0).max(100).default(5).describe('Every GPU has to stay below this'),
  action: z.enum(['notify', 'stop', 'terminate']).default('stop'),
  graceSeconds: z.int().min(0).max(3_600).default(300).describe('Time between the warning and the action'),
})
export type IdleRule = z.output<typeof idleRule>

const volumeMount = z.strictObject({
  volumeId: positiveId,
  path: mountPath.describe('Where it is mounted'),
  readOnly: z.boolean().default(false),
})
export type VolumeMount = z.output<typeof volumeMount>

export const metadata = z
  .record(z.string(), z.unknown())
  .refine((value) => utf8Bytes(JSON.stringify(value)) <= limits.userMetadataBytes, {
    message: `Must have at most ${limits.userMetadataBytes} bytes as JSON`,
  })
  .describe(`Your own metadata, stored with the rental; at most ${limits.userMetadataBytes} bytes`)

/** The program of a rental. A template has the same fields. */
export const programFields = {
  env: environment.optional().describe('Environment variables; values may contain `{{ secrets.NAME }}`'),
  files: files.optional().describe('Files written before the first start'),
  command: commandWords.min(1).optional().describe("Replaces the image's entrypoint"),
  args: commandWords.optional().describe("Replaces the image's command: the arguments of its entrypoint"),
  onStart: z
    .string()
    .max(limits.scriptBytes)
    .optional()
    .describe('Shell script, run at every start beside the entrypoint; its output is in the log'),
  userData: z
    .string()
    .max(limits.workloadTextBytes)
    .optional()
    .describe('cloud-init user data of a virtual machine, or a script for bare metal'),
  diskGb: z
    .int()
    .min(1)
    .max(64_000)
    .optional()
    .describe(
      'Size of the root disk; default: 50, or the share of the GPUs if that is less or the machine cannot be stopped',
    ),
  shmGb: z.number().min(0.0625).max(4_096).optional().describe('Size of /dev/shm; default: half of the memory'),
  restart: restartPolicy.optional().describe('What happens when the program of a container exits'),
}

/** Options of every create. */
export const orderFields = {
  templateId: z
    .string()
    .max(100)
    .optional()
    .describe(
      'Template that the order starts from, as `ID` or `ID@VERSION`; fields of the order win, and `env` is merged. A template of another account needs the version',
    ),
  secrets: z
    .array(secretName)
    .max(limits.secretsPerAccount)
    .optional()
    .describe("Your secrets that the template may use. Those of your own templates don't have to be named"),
  ...programFields,
  volumes: z
    .array(volumeMount)
    .max(limits.volumesPerRental)
    .optional()
    .describe('Storage volumes, mounted before the program starts'),
  registryCredentialId: z.string().max(100).optional().describe('Registry login for a private image'),
  idle: idleRule.optional().describe('What happens when the machine is not used'),
  stopAt: time.optional().describe('Stops the rental at this time (ISO 8601); its disk is kept'),
  terminateAt: time.optional().describe('Terminates the rental at this time (ISO 8601)'),
  maxCostUsd: nonNegativeUsd.optional().describe('Terminates the rental when its cost reaches this amount (USD)'),
}
/** For a field that only other kinds of machines have. An order with it is rejected, not placed without it. */
export const OTHER_KINDS = 'Only for other kinds of machines: rejects the order'
export const ofOtherKinds = z.unknown().optional().describe(OTHER_KINDS)

/** `weights` and `compileCache` are not in any request yet: managed deployments order with them. */
const orderOptions = z.object({
  ...orderFields,
  ports: workloadPorts.optional(),
  metadata: metadata.optional(),
  weights: weights.optional(),
  compileCache: compileCache.optional(),
  storageVolume: z.unknown().optional(),
  cudaVersion: z.unknown().optional(),
  customPorts: z.unknown().optional(),
})
export type OrderOptions = z.output<typeof orderOptions>

/** The options of a rental as it was ordered. Secrets are shown as references. */
export const orderedWorkload = z
  .object({
    templateId: z.string().nullable().describe('Template and version, such as `tpl_…@2`'),
    env: z.record(z.string(), z.string()),
    files: z.array(z.object({ path: z.string(), content: z.string(), mode: z.string() })),
    command: z.array(z.string()).nullable().describe("null: the image's entrypoint"),
    args: z.array(z.string()).nullable().describe("null: the image's command"),
    onStart: z.string().nullable(),
    userData: z.string().nullable(),
    diskGb: z.number().nullable().describe('null: the default size, which `resources` shows'),
    shmGb: z.number().nullable().describe('null: half of the memory'),
    ports: z.array(
      z.object({
        port: z.number(),
        protocol: portProtocol,
        access: portAccess,
        healthPath: z.string().nullable(),
      }),
    ),
    volumes: z.array(z.object({ volumeId: z.number(), path: z.string(), readOnly: z.boolean() })),
    registryCredentialId: z.string().nullable(),
    restart: z.object({ policy: z.enum(['never', 'on-failure', 'always']), maxRetries: z.number() }),
    weights: weights.optional().describe('Files that its host downloads once and mounts read-only'),
    compileCache: compileCache
      .optional()
      .describe('Folder with what its engine compiles, for the next start on its host'),
    runsOnce: z.boolean().optional().describe('It belongs to a job: its program is never started again'),
  })
  .meta({ id: 'Workload' })
export type OrderedWorkload = z.output<typeof orderedWorkload>
