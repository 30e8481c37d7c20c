/** A person at a browser that keeps its cookies, with a mailbox on a real SMTP server. */
import type { App } from '../../src/app/app.ts'
import { beginDeviceLogin, type NewLogin } from '../../src/app/person/device-login.ts'
import { startPersonSession, type Browser } from '../../src/app/person/session.ts'
import { CODE_PATH, REDEEM_CODE_PATH } from '../../src/contract/session.ts'
import { makeApiKey } from '../../src/base/api-key.ts'
import { randomId } from '../../src/base/id.ts'
import { addMs, DAY_MS, toDate } from '../../src/base/instant.ts'
import { listMembers } from '../../src/store/account/account.ts'
import { insertApiKey, noKeyLimits } from '../../src/store/account/api-key.ts'
import { insertPasskey } from '../../src/store/account/passkey.ts'
import { listConsoleSessions } from '../../src/store/account/console-session.ts'
import { insertProvider } from '../../src/store/account/identity-provider.ts'
import { insertIdentity, listIdentities } from '../../src/store/account/identity.ts'
import { replaceInvitation } from '../../src/store/account/invitation.ts'
import { acceptMembership, proveAddress } from '../../src/store/account/person.ts'
import { transact, type Tx } from '../../src/store/platform/database.ts'
import { ask, consoleHeaders, type Answer } from './console.ts'
import { succeed, type Journey } from './journey.ts'
import { textOf, type MailServer, type ReceivedMail } from './mail-server.ts'
import type { Call } from './server.ts'
import { waitFor } from './wait.ts'

export const testBrowser: Browser = { address: '127.0.0.1', name: undefined, isHttps: false, replaces: undefined }

/** With a passkey, so that they may also change what they can show. */
const proof = { method: 'passkey', providerId: null, hasFactor: true } as const

/** The headers of a person who proved their address, accepted the account that others opened for them, and signed in. */
export async function personHeaders(app: App, owner: { id: string; call: Call }): Promise<Record<string, string>> {
  const { id } = await succeed(owner.call, 'GET', '/v2/users/me')
  const token = await transact(app.database, async (tx) => {
    await proveAddress(tx, id)
    await acceptMembership(tx, owner.id, id)
    return startPersonSession(tx, id, proof, testBrowser)
  })
  return { ...consoleHeaders, Cookie: `berth_session=${token}` }
}

/** What belongs to the owner of an account as a person. */
export async function makePersonal({ app, operator }: Journey, owner: { id: string; call: Call }) {
  const { id, email } = await succeed(owner.call, 'GET', '/v2/users/me')
  const sender = await succeed(operator, 'GET', '/v2/users/me')
  const stranger = await succeed(operator, 'POST', '/v2/operator/accounts', {
    name: 'Inviting',
    ownerEmail: 'inviting@example.test',
  })
  const toAccount = (stranger.account as { id: string }).id
  const { clock } = app
  const expiresAt = addMs(clock.now(), DAY_MS)
  await personHeaders(app, owner)
  const devices = await makeDevices(app)
  return transact(app.database, async (tx) => {
    const [session] = await listConsoleSessions(tx.db, id, clock.now())
    const strangerId = (await listMembers(tx.db, toAccount))[0]?.id ?? ''
    const invite = async (invitation: {
      accountId: string | null
      email: string
      senderId: string
    }): Promise<string> => {
      const invitationId = randomId('inv')
      await replaceInvitation(tx, { ...invitation, id: invitationId, role: 'member', expiresAt })
      return invitationId
    }
    const provider = { issuer: 'https://id.example.test', client_id: 'berth', client_secret_sealed: null } as const
    await insertProvider(tx, {
      ...provider,
      id: 'example',
      account_id: null,
      kind: 'oidc',
      name: 'Example',
      required_domain: null,
    })
    await insertIdentity(tx, {
      provider_id: 'example',
      person_id: id,
      issuer: provider.issuer,
      subject: '1',
      email,
    })
    const [identity] = await listIdentities(tx.db, id)
    return {
      identity: identity?.id ?? '',
      sessionToEnd: session?.id ?? '',
      offerToAccept: await invite({ accountId: null, email, senderId: sender.id }),
      offerToDecline: await invite({ accountId: toAccount, email, senderId: strangerId }),
      invitationToRevoke: await invite({ accountId: owner.id, email: 'invited@example.test', senderId: id }),
      deviceKeyToEnd: await insertDeviceKey(tx, { accountId: owner.id, personId: id }),
      ...devices,
      passkey: await writePasskey(tx, id),
      passkeyToRemove: await writePasskey(tx, id),
    }
  })
}

/** Devices that wait for a decision. */
async function makeDevices(app: App) {
  const begin = async (): Promise<NewLogin> => {
    const device = { hostName: 'test', address: '127.0.0.1', days: null }
    const begun = await transact(app.database, (tx) => beginDeviceLogin(tx, device))
    if (!begun.ok) throw new Error(begun.message)
    return begun.value
  }
  const devices = {
    deviceCode: (await begin()).deviceCode,
    deviceToFind: (await begin()).userCode,
    deviceToApprove: (await begin()).userCode,
    deviceToDeny: (await begin()).userCode,
  }
  // Tests that walk over all operations move the clock.
  const expiresAt = toDate(addMs(app.clock.now(), DAY_MS))
  await app.database.db.updateTable('device_login').set({ expires_at: expiresAt }).execute()
  return devices
}

async function writePasskey(tx: Tx, personId: string): Promise<string> {
  const id = randomId('pky')
  const credential = { credential_id: id, public_key: Buffer.alloc(1), counter: 0n, transports: [], is_synced: true }
  await insertPasskey(tx, { ...credential, id, person_id: personId, name: 'Phone' })
  return id
}

async function insertDeviceKey(tx: Tx, holder: { accountId: string; personId: string }): Promise<string> {
  const limits = { ...noKeyLimits, expiresAt: addMs(tx.clock.now(), DAY_MS) }
  const key = { ...holder, name: 'berth login on test', kind: 'device', scopes: ['inference'], limits } as const
  return (await insertApiKey(tx, makeApiKey(), key)).public_id
}

let browsers = 0

export class TestBrowser {
  readonly cookies = new Map<string, string>()
  /** Servers that trust a proxy believe it: limits count each browser for itself. */
  address: string
  readonly #url: string
  readonly #mails: MailServer

  constructor(url: string, mails: MailServer) {
    this.#url = url
    this.#mails = mails
    browsers += 1
    this.address = `10.77.${browsers >> 8}.${browsers & 255}`
  }

  /** A request of the console's own page. */
  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.#keep(await ask(this.#url, path, { method, headers: { ...this.headers(), ...headers }, body }))
  }

  /** A link or redirect of another site opens the path: cookies that are `SameSite=Strict` stay at home. */
  async follow(path: string): Promise<Answer> {
    const cookie = [...this.cookies].filter(([name]) => name.endsWith('berth_flow')).map((pair) => pair.join('='))
    const headers = {
      'Sec-Fetch-Site': 'cross-site',
      'Sec-Fetch-Mode': 'navigate',
      'X-Forwarded-For': this.address,
      Cookie: cookie.join('; '),
    }
    return this.#keep(await ask(this.#url, path, { headers }))
  }

  #keep(answer: Answer): Answer {
    for (const set of answer.headers['set-cookie'] ?? []) {
      const [name = '', value = ''] = set.split(';')[0]?.split('=') ?? []
      this.cookies.set(name, value)
    }
    return answer
  }

  headers(): Record<string, string> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    return {
      ...consoleHeaders,
      'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0',
      'X-Forwarded-For': this.address,
      Cookie: cookie,
    }
  }

  /** Returns the code from the mail. */
  async askForCode(address: string): Promise<string> {
    const before = this.#mails.received.length
    const answer = await this.send('POST', CODE_PATH, { email: address })
    requireDone(answer)
    // Other messages, such as invitations and codes for others, may arrive meanwhile.
    const isForUs = ({ to }: ReceivedMail): boolean => to.includes(address.toLowerCase())
    return waitFor('the mail with the code', () =>
      this.#mails.received.slice(before).filter(isForUs).map(codeOf).find(Boolean),
    )
  }

  redeem(code: string): Promise<Answer> {
    return this.send('POST', REDEEM_CODE_PATH, { code })
  }

  async signIn(address: string): Promise<void> {
    requireDone(await this.redeem(await this.askForCode(address)))
  }
}

function codeOf(mail: ReceivedMail): string | undefined {
  return /^\d{4} \d{4}$/m.exec(textOf(mail).replaceAll('\r', ''))?.[0]
}

export function reasonOf(answer: Answer): string | undefined {
  return (JSON.parse(answer.text) as { reason?: string }).reason
}

export function requireDone({ status, text }: Answer): void {
  if (status !== 200) throw new Error(`refused: ${status} ${text}`)
}
