/** Conventions of all operations, at the top of the reference. */
import { limits } from '../../base/limits.ts'
import { anywhereStatuses, statusMeanings } from '../../contract/openapi/openapi.ts'
import { scopeTexts } from '../../contract/scope-text.ts'
import { html, prose, type Markup } from './markup.ts'
import { highlight } from './reference-example.ts'

const MIB = 1_048_576

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
  return html`<pre tabindex="0"><code>${highlight(code)}</code></pre>`
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
        Machines, volumes and models over one HTTP API. Request and response bodies are JSON. Set these two variables to
        paste the examples on this page into a shell. Replace ids, such as <code>$RENTAL_ID</code>, and the names of
        models and machines with your own.
      </p>
      <p>
        For programs: <a href="#getOpenApi">OpenAPI 3.1</a>. Chat, completions and embeddings are compatible with OpenAI
        clients; set their base URL to <code>$BERTH_URL/v1</code>. Inference answers carry
        <code>X-Inference-Request-Id</code>; look up <a href="#getRequestCost">the cost</a> with it.
      </p>
    </div>
    ${block(text.join('\n'))}
  </div>`
}

function renderKeys(): Markup {
  return html`<p>
      Send a key in the header <code>Authorization: Bearer bk_…</code> (or <code>x-api-key</code>, if that is all a
      client has). It acts for one account, within its scopes. A missing or invalid key is <b>401</b>, a valid key
      without the scope is <b>403</b>, and anything that belongs to another account is reported as not found.
    </p>
    <table class="scopes">
      <tbody>
        ${Object.entries(scopeTexts).map(
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
      ${prose('Every answer carries `X-Request-Id`; include it when you ask for help. Errors that a program can act on have a `reason`: a stable identifier such as `insufficient_balance`, `no_capacity` or `no_ssh_key`. A validation error lists all invalid fields at once.')}
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
    <p>Each operation lists its statuses. These can occur on any operation:</p>
    <ul class="statuses">
      ${anywhereStatuses.map((status) => html`<li><b>${status}</b> ${prose(statusMeanings[status] ?? '')}</li>`)}
    </ul>`
}

function renderRetries(): Markup {
  const hours = limits.idempotencyKeptMs / 3_600_000
  return html`<p>
      ${prose(`Create operations take an \`Idempotency-Key\` header of up to ${limits.idempotencyKeyChars} characters. Repeating the same key and body within ${hours} hours returns the first answer and creates nothing twice; a different body is refused with \`idempotency_key_reused\`.`)}
    </p>
    <p>
      ${prose(`Too many requests are answered with 429, \`Retry-After\`, \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\`. Bodies are limited to ${limits.bodyBytes / MIB} MiB, and to ${limits.inferenceBodyBytes / MIB} MiB for inference requests.`)}
    </p>`
}

function renderForms(): Markup {
  return html`<p>
      ${prose('Prices in rental and marketplace records are USD per hour, as numbers. Balances and amounts are strings with up to nine decimals, such as `"3.614200000"`, so that rounding loses nothing; `costNanoUsd` is a whole number of billionths of a dollar. Times are RFC 3339 in UTC.')}
    </p>
    <p>
      ${prose(`Lists are paginated with \`limit\` (up to ${limits.pageRows}) and \`cursor\`: send the \`nextCursor\` of one page to get the next, until it is \`null\`.`)}
    </p>`
}
