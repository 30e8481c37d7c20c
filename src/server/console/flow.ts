/** The flow of a browser: a cookie that ties the end of a sign-in to the browser in which it began. */
import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../../base/limits.ts'
import { flowCookie, flowTokenOf } from '../http/credentials.ts'
import { isSecure } from './console-request.ts'

const FLOW_BYTES = 32

/** Returns the token. The browser keeps it for all sign-ins that it begins meanwhile. */
export function beginFlow(request: FastifyRequest, reply: FastifyReply): string {
  const token = flowOf(request) ?? randomBytes(FLOW_BYTES).toString('base64url')
  const maxAgeS = limits.signInFlowMs / 1_000
  reply.header('Set-Cookie', flowCookie(token, { maxAgeS, isSecure: isSecure(request) }))
  return token
}

/** Returns the token. undefined: this browser has begun no sign-in. */
export function flowOf(request: FastifyRequest): string | undefined {
  return flowTokenOf(request.headers, isSecure(request))
}
