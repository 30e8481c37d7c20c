/**
 * The access to a bare-metal host, and its declared hardware. `metalAccess` holds secrets: it is stored encrypted and
 * never shown. Names that end up in files of the host (the tenant's user, scratch folders) are validated here once, so that
 * the scripts need no quoting.
 */
import { posix } from 'node:path'
import { z } from 'zod'
import { sshLibrary } from './ssh-library.ts'

const MAX_KEY_CHARS = 16_384
const MAX_SCRATCH_FOLDERS = 16
const MAX_COMMAND_WORDS = 50

/** These folders and everything below them are never wiped. */
const SYSTEM_TREES = [
  'bin',
  'boot',
  'dev',
  'etc',
  'lib',
  'lib32',
  'lib64',
  'libx32',
  'proc',
  'root',
  'run',
  'sbin',
  'sys',
  'usr',
]
/** These folders are never wiped themselves, but folders below them can be scratch. */
const SYSTEM_FOLDERS = [
  '',
  'home',
  'media',
  'mnt',
  'opt',
  'srv',
  'tmp',
  'var',
  'var/lib',
  'var/log',
  'var/spool',
  'var/tmp',
]
const OWN_FOLDER = '/var/lib/berth'

const scratchFolder = z
  .string()
  .max(1_000)
  .regex(/^\/[A-Za-z0-9._/-]*$/, 'an absolute path of letters, digits, dot, underscore, hyphen and slash')
  .refine(
    (folder) => posix.normalize(folder) === folder && !folder.endsWith('/'),
    'a path without "..", "//" or "/" at its end',
  )
  .refine((folder) => !isSystemFolder(folder), 'must not be a system folder: it is wiped between tenants')

function isSystemFolder(folder: string): boolean {
  const inside = folder.slice(1)
  const isBelow = (tree: string): boolean => inside === tree || inside.startsWith(`${tree}/`)
  return SYSTEM_FOLDERS.includes(inside) || SYSTEM_TREES.some(isBelow) || isBelow(OWN_FOLDER.slice(1))
}

const privateKey = z
  .string()
  .max(MAX_KEY_CHARS)
  .superRefine((text, context) => {
    const parsed = sshLibrary().utils.parseKey(text)
    const key = Array.isArray(parsed) ? parsed[0] : parsed
    if (key instanceof Error) context.addIssue({ code: 'custom', message: `is not a private key: ${key.message}` })
    else if (key?.isPrivateKey() !== true)
      context.addIssue({ code: 'custom', message: 'is a public key; a private key is needed' })
  })

const command = z.array(z.string().min(1).max(1_000)).min(1).max(MAX_COMMAND_WORDS)

const metalBmc = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('redfish'),
    url: z.url({ protocol: /^https?$/ }),
    username: z.string().min(1).max(200),
    password: z.string().max(1_000),
    /** The path of the system; required if the controller has several. */
    system: z.string().startsWith('/').max(500).optional(),
    /** Pinned SHA-256 of the certificate, as `AB:CD:…`. */
    fingerprint: z
      .string()
      .regex(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/i, 'SHA-256 as 32 pairs of hex digits with colons')
      .optional(),
    /** Accepts any certificate and plain HTTP: the password can be intercepted. */
    insecure: z.boolean().default(false),
  }),
  z.object({
    kind: z.literal('command'),
    reset: command,
    /** Used when the reset fails: some switches cannot reset a host that is off. */
    on: command.optional(),
    off: command.optional(),
  }),
])
export type MetalBmc = z.output<typeof metalBmc>

export const metalAccessFields = z.object({
  address: z.string().regex(/^[A-Za-z0-9.:-]{1,253}$/, 'a host name or an IP address'),
  port: z.int().min(1).max(65_535).default(22),
  user: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,31}$/, 'a user name')
    .default('root'),
  /** OpenSSH's own form or PEM, without a passphrase. */
  privateKey,
  /** Host key as `SHA256:…` (Ed25519 if there is one). Absent: pinned on the first connection. */
  hostKey: z
    .string()
    .regex(/^SHA256:[A-Za-z0-9+/]{43}$/, 'SHA256: and 43 characters, as ssh-keygen -l prints it')
    .optional(),
  /** The user is not root and has passwordless sudo. */
  sudo: z.boolean().default(false),
  /** This user is created for each tenant and removed afterwards. The host must have no other user of this name. */
  tenantUser: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,30}$/, 'lower-case letters, digits and hyphens')
    .default('tenant'),
  /**
   * Gives the tenant passwordless sudo. This is weaker: root can hide files from the cleaning, in the system or in
   * firmware. Only for tenants that trust each other, or hosts that are reimaged.
   */
  tenantRoot: z.boolean().default(false),
  /** Folders that are emptied between tenants. */
  scratch: z.array(scratchFolder).max(MAX_SCRATCH_FOLDERS).default([]),
  bmc: metalBmc.optional(),
})
export const metalAccess = metalAccessFields.refine(({ user, tenantUser }) => user !== tenantUser, {
  path: ['tenantUser'],
  message: 'must differ from the user that Berth logs in as',
})
export type MetalAccess = z.output<typeof metalAccess>

/** Hardware as declared by the operator. */
export const metalDeclared = z.object({
  /** Processors in /proc/cpuinfo. */
  cpuCores: z.int().positive(),
  ramGb: z.number().positive(),
  /** Absent: the host has no GPUs, or simulated ones. */
  gpus: z.object({ count: z.int().min(1).max(64), model: z.string().min(1).max(200) }).optional(),
  /** Tolerance for memory, as a share: the kernel reserves some. */
  tolerance: z.number().min(0).max(0.5).default(0.1),
})
export type MetalDeclared = z.output<typeof metalDeclared>

export const metalAddress = z.object({
  hostname: z.string().regex(/^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/, 'a host name'),
  publicIp: z.union([z.ipv4(), z.ipv6()]),
  privateIp: z.union([z.ipv4(), z.ipv6()]),
  sshPort: z.int().min(1).max(65_535).default(22),
})
export type MetalAddress = z.output<typeof metalAddress>
