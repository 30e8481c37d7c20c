/** What holds for every operation, said once at the top of the reference. */
import { limits } from '../base/limits.ts'
import type { Scope } from '../contract/endpoint.ts'
import { anywhereStatuses, statusMeanings } from '../contract/openapi.ts'
import { html, prose, type Markup } from './markup.ts'
import { colour } from './reference-example.ts'

const MIB = 1_048_576

const scopeMeanings: Readonly<Record<Scope, string>> = {
  inference: 'Call models and read what calls cost.',
  'compute:read': 'See rentals, volumes, instances and events.',
  'compute:write': 'Rent, change and end machines and volumes.',
  'billing:read': 'See balance, usage, statement and invoices.',
  'billing:write': 'Kept for payments; no operation asks for it yet.',
  keys: 'Manage people, API keys, SSH keys and webhooks.',
  supply: 'Price machines and see what they earn.',
  operator: 'Everything of everyone.',
}

export const introSections = [
  { id: 'start', title: 'Start', render: renderStart },
  { id: 'keys', title: 'Keys and scopes', render: renderKeys },
  { id: 'errors', title: 'Errors', render: renderErrors },
  { id: 'retries', title: 'Retries and limits', render: renderRetries },
  { id: 'forms', title: 'Money, time, lists', render: renderForms },
] as const

export function renderIntro(): Markup {
  return html`${introSections.map(
    ({ id, title, render }) =>
      html`<section class="intro" id="${id}">
        <h2>${title}</h2>
        ${render()}
      </section>`,
  )}`
}

function block(code: string): Markup {
  return html`<pre tabindex="0"><code>${colour(code)}</code></pre>`
}

function renderStart(): Markup {
  const text = [
    'export BERTH_URL="https://berth.example.com"',
    'export BERTH_KEY="bk_..."',
    '',
    'curl "$BERTH_URL/v2/users/me" \\',
    '  -H "Authorization: Bearer $BERTH_KEY"',
  ]
  return html`<div class="columns">
    <div>
      <p>
        Machines, volumes and models over one HTTP API. Bodies are JSON in both directions. Set these two variables, and
        the examples on this page can be pasted. Ids, such as <code>$RENTAL_ID</code>, and the names of models and
        machines stand for your own.
      </p>
      <p>
        The same interface for programs: <a href="#getOpenApi">OpenAPI 3.1</a>. Chat, completions and embeddings follow
        the convention that most clients speak; point their base URL at <code>$BERTH_URL/v1</code>. Answers of models
        carry <code>X-Inference-Request-Id</code>, by which <a href="#getRequestCost">what they cost</a> is asked.
      </p>
    </div>
    ${block(text.join('\n'))}
  </div>`
}

function renderKeys(): Markup {
  return html`<p>
      A key goes into the header <code>Authorization: Bearer bk_…</code>. It acts for one account and can do what its
      scopes say. No key or a bad one is <b>401</b>, a good key without the scope is <b>403</b>, and what belongs to
      another account looks as if it did not exist.
    </p>
    <table class="scopes">
      <tbody>
        ${Object.entries(scopeMeanings).map(
          ([scope, meaning]) =>
            html`<tr>
              <td><code class="name">${scope}</code></td>
              <td>${meaning}</td>
            </tr>`,
        )}
      </tbody>
    </table>`
}

const v2Sample = {
  message: 'Input validation failed',
  code: 'BAD_REQUEST',
  issues: [{ code: 'too_small', path: ['gpuCount'], message: 'Must be at least 1' }],
}
const v1Inner = { message: 'Insufficient balance', type: 'insufficient_balance', param: null, code: 402 }
const v1Sample = { object: 'error', ...v1Inner, error_code: 402, error: v1Inner }

function renderErrors(): Markup {
  return html`<p>
      ${prose('Every answer carries `X-Request-Id`; name it when you ask for help. Where a program can act on an error, it has a `reason`: a stable word such as `insufficient_balance`, `no_capacity` or `no_ssh_key`. A validation failure names every fault at once.')}
    </p>
    <div class="pair">
      <div>
        <h3>Under <code>/v2</code></h3>
        ${block(JSON.stringify(v2Sample, null, 2))}
      </div>
      <div>
        <h3>Under <code>/v1</code> and <code>/billing</code></h3>
        ${block(JSON.stringify(v1Sample, null, 2))}
      </div>
    </div>
    <p>Each operation lists its statuses. These can come anywhere:</p>
    <ul class="statuses">
      ${anywhereStatuses.map((status) => html`<li><b>${status}</b> ${prose(statusMeanings[status] ?? '')}</li>`)}
    </ul>`
}

function renderRetries(): Markup {
  const hours = limits.idempotencyKeptMs / 3_600_000
  return html`<p>
      ${prose(`Creates take an \`Idempotency-Key\` header of up to ${limits.idempotencyKeyChars} characters. The same key and body within ${hours} hours give the first answer again and rent nothing twice; another body is refused with \`idempotency_key_reused\`.`)}
    </p>
    <p>
      ${prose(`After too many requests the answer is 429 with \`Retry-After\`, \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\`. A body may have up to ${limits.bodyBytes / MIB} MiB, and ${limits.inferenceBodyBytes / MIB} MiB where a model is called.`)}
    </p>`
}

function renderForms(): Markup {
  return html`<p>
      ${prose('Prices in rental and marketplace records are USD per hour, as numbers. Balances and amounts are texts with up to nine decimals, such as `"3.614200000"`, so that no cent is lost to rounding; `costNanoUsd` is a whole number of billionths of a dollar. Times are RFC 3339 in UTC.')}
    </p>
    <p>
      ${prose(`Lists that can grow take \`limit\` (up to ${limits.pageRows}) and \`cursor\`: send the \`nextCursor\` of one page to get the next, until it is \`null\`.`)}
    </p>`
}
