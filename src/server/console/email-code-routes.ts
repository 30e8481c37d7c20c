/**
 * Sign-in with a code by email: one path asks for it, one redeems it. A cookie ties both to one browser. A code of the
 * person who is signed in renews their session (step-up).
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { App } from '../../app/app.ts'
import { readCode, redeemEmailCode, sendEmailCode } from '../../app/person/email-code.ts'
import { admitAddress, type SignUp } from '../../app/person/sign-up.ts'
import { signInPerson, type Proof } from '../../app/person/session.ts'
import { linkAfterCode } from '../../app/person/sso-sign-in.ts'
import { sha256 } from '../../base/id.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { CODE_PATH, REDEEM_CODE_PATH } from '../../contract/session.ts'
import { redeemCode, requestCode } from '../../contract/session-body.ts'
import type { EmailCode } from '../../store/account/email-code.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { countFailedKey } from '../http/access.ts'
import { sessionTokenOf } from '../http/credentials.ts'
import { browserName } from './browser-name.ts'
import { addPath, browserOf, openSession, type ConsoleOptions } from './console-request.ts'
import { beginFlow, flowOf } from './flow.ts'

export function addEmailCodeRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  addPath(server, options, CODE_PATH, requestCode, async ({ body, request, reply }) => {
    const sent = await sendEmailCode(options.app, {
      address: body.email,
      flowHash: sha256(beginFlow(request, reply)),
      purpose: 'sign-in',
      identitySealed: null,
      browser: browserName(request),
      ipAddress: request.ip,
    })
    return sent.ok ? ok({}) : sent
  })

  addPath(server, options, REDEEM_CODE_PATH, redeemCode, async ({ body, request, reply }) => {
    const token = await signInWithCode(options.app, request, readCode(body.code))
    if (!token.ok) return countFailedKey(options, token, request, reply)
    openSession(request, reply, token.value)
    return ok({})
  })
}

/** Returns the token of the session. */
async function signInWithCode(app: App, request: FastifyRequest, code: string): Promise<Result<string>> {
  const { people } = app
  if (people === undefined) return fail('people_not_configured')
  const flow = flowOf(request)
  if (flow === undefined) return fail('code_ended')
  // The transaction commits also where the code is refused, since it has counted a try or ended the code.
  const committed = await transact(app.database, async (tx): Promise<Result<Result<string>>> => {
    const redeemed = await redeemEmailCode(tx, sha256(flow), 'sign-in', code)
    if (!redeemed.ok) return ok(redeemed)
    const signUp = { mode: people.signUp, ipAddress: request.ip }
    const signedIn = await personOfCode(app, tx, signUp, redeemed.value)
    if (!signedIn.ok) return ok(signedIn)
    const { personId, proof } = signedIn.value
    return ok(ok(await signInPerson(tx, personId, proof, browserOf(request), sessionTokenOf(request.headers))))
  })
  return committed.ok ? committed.value : committed
}

async function personOfCode(
  app: App,
  tx: Tx,
  signUp: SignUp,
  { address, identity_sealed: identity }: EmailCode,
): Promise<Result<{ readonly personId: string; readonly proof: Proof }>> {
  if (identity !== null) return linkAfterCode(app, tx, signUp, identity)
  const person = await admitAddress(tx, signUp, { address, name: null })
  if (!person.ok) return person
  return ok({ personId: person.value.id, proof: { method: 'code', providerId: null, hasFactor: false } })
}
