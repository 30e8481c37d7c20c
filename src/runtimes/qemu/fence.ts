/**
 * Isolates machines from their host. QEMU itself opens the connections of a guest: traffic to 10.0.2.2 arrives on the
 * host's loopback, where services trust everyone. So each QEMU runs as its own user from a fixed, unused range, and
 * nftables rules forbid these users new connections to the host's addresses and to private and link-local ones, such as
 * the owner's network and the metadata services of clouds, which hand out secrets. Replies to connections from the host
 * pass, and so does DNS to the host's resolvers, which QEMU queries for its guests.
 *
 * The rules are in a table of their own, which exists while there are machines and is restored after a flush. Without
 * root or nftables, machines run without rules, and the notes say so.
 */
import { randomInt } from 'node:crypto'
import fs from 'node:fs/promises'
import { unlessGone } from './machine-files.ts'
import { acceptDns, PRIVATE_IPV4, PRIVATE_IPV6, resolversOfHost } from '../private-network.ts'
import { runProgram } from '../run-program.ts'

/** Outside the ranges of Debian, systemd and directory services. */
const FIRST_USER = 2_100_000_000
const USERS = 100_000
const TABLE = 'berth_vm'
const NFT_MS = 10_000
const PICKS = 100

/** This is atomic, and no error if the table is missing. */
const noRules = `add table inet ${TABLE}\ndelete table inet ${TABLE}\n`
/** This is atomic, so that there is no moment without rules. */
function rulesFor(resolvers: readonly string[]): string {
  return `${noRules}table inet ${TABLE} {
  chain refuse {
    ${acceptDns(resolvers)}
    meta l4proto tcp reject with tcp reset
    reject
  }
  chain output {
    type filter hook output priority filter; policy accept;
    meta skuid < ${FIRST_USER} accept
    meta skuid >= ${FIRST_USER + USERS} accept
    ct state != new accept
    fib daddr type { local, broadcast, anycast, multicast } goto refuse
    ip daddr { ${PRIVATE_IPV4} } goto refuse
    ip6 daddr { ${PRIVATE_IPV6} } goto refuse
  }
}
`
}

export interface FenceOptions {
  readonly hasMachines: () => Promise<boolean>
  /** False: machines have no network, so no rules are needed. */
  readonly needsRules: boolean
  readonly onError: (what: string, error: unknown) => void
}

export class Fence {
  readonly #options: FenceOptions
  /** undefined: not tried yet. null: users are possible. Otherwise the reason why not. */
  #why: string | null | undefined
  #isUp = true
  /** Users whose process is starting. */
  readonly #startingUsers = new Set<number>()
  #last: Promise<void> = Promise.resolve()

  constructor(options: FenceOptions) {
    this.#options = options
  }

  /** Runs `start` behind the rules with a user for the machine. null: our own user. */
  async enclose<T>(start: (user: number | null) => Promise<T>): Promise<T> {
    await this.maintain()
    if ((await whyNoUsers()) !== undefined) return start(null)
    const user = this.#pick(await findGuestProcesses())
    try {
      return await start(user)
    } finally {
      this.#startingUsers.delete(user)
    }
  }

  /** Sets the rules while there are machines, even if they seem present, and removes them otherwise. */
  maintain(): Promise<void> {
    const next = this.#last.then(() => this.#maintain())
    this.#last = next.catch(() => {})
    return next
  }

  /** Notes for the owner of the host. */
  notes(): readonly string[] {
    if (!this.#options.needsRules || this.#why === undefined) return []
    return this.#why === null
      ? [`Virtual machines cannot connect to this host or to private networks (nftables, table inet ${TABLE}).`]
      : [
          `Virtual machines can connect to this host's private network, and through 10.0.2.2 to its loopback address: ${this.#why}`,
        ]
  }

  async #maintain(): Promise<void> {
    if (!this.#options.needsRules) return
    const reason = await whyNoUsers()
    if (reason !== undefined) return void (this.#why = reason)
    const isNeeded = await this.#isWanted()
    if (!isNeeded && !this.#isUp) return
    try {
      const signal = new AbortController().signal
      const input = isNeeded ? rulesFor(await resolversOfHost()) : noRules
      await runProgram('nft', ['-f', '-'], { signal, timeoutMs: NFT_MS, input })
      this.#isUp = isNeeded
      this.#why = null
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      if (reason !== this.#why) this.#options.onError('nftables rules', error)
      this.#why = reason
    }
  }

  /** Machines of other agents on this host use the same table. */
  async #isWanted(): Promise<boolean> {
    if (await this.#options.hasMachines()) return true
    const ownNetwork = await networkOf('self')
    for (const { pid } of await findGuestProcesses()) if ((await networkOf(pid)) === ownNetwork) return true
    return false
  }

  /** Random, so that users are rarely reused. */
  #pick(guests: readonly GuestProcess[]): number {
    for (let n = 0; n < PICKS; n += 1) {
      const user = FIRST_USER + randomInt(USERS)
      if (this.#startingUsers.has(user) || guests.some((one) => one.user === user)) continue
      this.#startingUsers.add(user)
      return user
    }
    throw new Error('No free user ID was found for the machine')
  }
}

/** The user of a process. undefined: it has ended. */
export async function userOf(pid: number | string): Promise<number | undefined> {
  return (await fs.stat(`/proc/${pid}`).catch(unlessGone(undefined)))?.uid
}

interface GuestProcess {
  readonly pid: string
  readonly user: number
}

async function findGuestProcesses(): Promise<GuestProcess[]> {
  const guests: GuestProcess[] = []
  for (const pid of (await fs.readdir('/proc')).filter((one) => /^\d+$/.test(one))) {
    const user = (await userOf(pid)) ?? 0
    if (user >= FIRST_USER && user < FIRST_USER + USERS) guests.push({ pid, user })
  }
  return guests
}

/** Returns the network namespace of a process. undefined: the process has ended. */
function networkOf(pid: string): Promise<string | undefined> {
  return fs.readlink(`/proc/${pid}/ns/net`).catch(unlessGone(undefined))
}

/** Returns why machines cannot have their own users. undefined: they can. */
async function whyNoUsers(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'the agent is not running as root.'
  // In a container, root may map only a few users.
  const map = (await fs.readFile('/proc/self/uid_map', 'utf8')).trim().split('\n')
  const isMapped = map.some((line) => {
    const [from = 0, , count = 0] = line.trim().split(/\s+/).map(Number)
    return from <= FIRST_USER && from + count >= FIRST_USER + USERS
  })
  return isMapped
    ? undefined
    : `the agent runs in a container whose user namespace does not include user IDs ${FIRST_USER} and up.`
}
