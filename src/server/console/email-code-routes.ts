/**
 * Sign-in with a code by email: one path asks for it, one redeems it. A cookie ties both to one browser. The same two
 * paths renew the sign-in of a session (step-up): then the code goes to the person's own address.
 */
import { randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { App } from '../../app/app.ts'
import { readCode, redeemEmailCode, sendEmailCode } from '../../app/person/email-code.ts'
import { admitAddress as admitPerson, type SignUp } from '../../app/person/sign-up.ts'
import { signInPerson, type Proof } from '../../app/person/session.ts'
import { linkAfterCode } from '../../app/person/sso-sign-in.ts'
import { sha256 } from '../../base/id.ts'
import { limits } from '../../base/limits.ts'
import { v2Form } from '../../contract/error-form.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { CODE_PATH, REDEEM_CODE_PATH } from '../../contract/session.ts'
import { redeemCode, requestCode } from '../../contract/session-body.ts'
import type { EmailCode } from '../../store/account/email-code.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { countFailedKey } from '../http/access.ts'
import { send } from '../http/answer.ts'
import { flowCookie, flowTokenOf, sessionTokenOf } from '../http/credentials.ts'
import { validate } from '../http/validation.ts'
import { admitAddress, browserOf, isSecure, openSession, refuse, type ConsoleOptions } from './console-request.ts'

const FLOW_BYTES = 32

export function addEmailCodeRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  const { app } = options
  server.post(CODE_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    if (counted !== undefined) return refuse(reply, counted)
    const body = validate(requestCode, request.body)
    if (!body.ok) return send(reply, v2Form.writeInvalid('body', body.issues))
    const { email } = body.value as z.output<typeof requestCode>
    const flow = beginFlow(request, reply)
    const sent = await sendEmailCode(app, {
      address: email,
      flowHash: sha256(flow),
      purpose: 'sign-in',
      identitySealed: null,
      browser: browserName(request),
      ipAddress: request.ip,
    })
    return sent.ok ? reply.send({}) : refuse(reply, sent)
  })

  server.post(REDEEM_CODE_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    if (counted !== undefined) return refuse(reply, counted)
    const body = validate(redeemCode, request.body)
    if (!body.ok) return send(reply, v2Form.writeInvalid('body', body.issues))
    const { code } = body.value as z.output<typeof redeemCode>
    const signedIn = await signInWithCode(options, request, readCode(code))
    if (signedIn.kind === 'refused') return refuse(reply, countFailedKey(options, signedIn.failure, request, reply))
    return openSession(request, reply, signedIn.token).send({})
  })
}

type SignedIn =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'refused'; readonly failure: Failure }

/** The transaction commits also where it refuses, since it has counted a try or ended the code. */
async function signInWithCode({ app }: ConsoleOptions, request: FastifyRequest, code: string): Promise<SignedIn> {
  const { people } = app
  if (people === undefined) return { kind: 'refused', failure: fail('people_not_configured') }
  const flow = flowTokenOf(request.headers, isSecure(request))
  if (flow === undefined) return { kind: 'refused', failure: fail('code_ended') }
  const result = await transact(app.database, async (tx): Promise<Result<SignedIn>> => {
    const redeemed = await redeemEmailCode(tx, sha256(flow), 'sign-in', code)
    if (redeemed.kind === 'refused') return ok(redeemed)
    const signUp = { mode: people.signUp, ipAddress: request.ip }
    const signedIn = await personOfCode(app, tx, signUp, redeemed.code)
    if (!signedIn.ok) return ok({ kind: 'refused', failure: signedIn })
    const { personId, proof } = signedIn.value
    const token = await signInPerson(tx, personId, proof, browserOf(request), sessionTokenOf(request.headers))
    return ok({ kind: 'token', token })
  })
  return result.ok ? result.value : { kind: 'refused', failure: result }
}

async function personOfCode(
  app: App,
  tx: Tx,
  signUp: SignUp,
  { address, identity_sealed: identity }: EmailCode,
): Promise<Result<{ readonly personId: string; readonly proof: Proof }>> {
  if (identity !== null) return linkAfterCode(app, tx, signUp, identity)
  const person = await admitPerson(tx, signUp, { address, name: null })
  if (!person.ok) return person
  return ok({ personId: person.value.id, proof: { method: 'code', providerId: null, hasFactor: false } })
}

/** The browser keeps its flow when it asks for another code. */
export function beginFlow(request: FastifyRequest, reply: FastifyReply): string {
  const secure = isSecure(request)
  const flow = flowTokenOf(request.headers, secure) ?? randomBytes(FLOW_BYTES).toString('base64url')
  reply.header('Set-Cookie', flowCookie(flow, { maxAgeS: limits.signInFlowMs / 1_000, isSecure: secure }))
  return flow
}

/** The name of a browser for people: "Firefox on Linux". */
export function browserName(request: FastifyRequest): string {
  const agent = request.headers['user-agent'] ?? ''
  const browser = browsers.find(([, pattern]) => pattern.test(agent))?.[0] ?? 'A browser'
  const system = systems.find(([, pattern]) => pattern.test(agent))?.[0]
  return system === undefined ? browser : `${browser} on ${system}`
}

/** The first match counts, because most browsers also name others. */
const browsers = [
  ['Firefox', /Firefox\//],
  ['Edge', /Edg\//],
  ['Opera', /OPR\//],
  ['Chrome', /Chrom(e|ium)\//],
  ['Safari', /Safari\//],
] as const

const systems = [
  ['Android', /Android/],
  ['iOS', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['Linux', /Linux/],
] as const
