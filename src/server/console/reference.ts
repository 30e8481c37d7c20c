/**
 * The API reference at /docs: one static page, rendered from the contract, without scripts or external resources. It
 * works under `default-src 'none'; style-src 'unsafe-inline'; img-src data:`.
 */
import { api } from '../../contract/api.ts'
import { isInference, tags, type Access, type Endpoint, type Tag } from '../../contract/endpoint.ts'
import { describeApi, statusesAnywhere, statusMeanings, tagDescriptions } from '../../contract/openapi/openapi.ts'
import type { JsonObject } from '../../contract/openapi/openapi-schema.ts'
import { html, join, prose, type Markup } from './markup.ts'
import { renderCurl } from './reference-example.ts'
import { anchorOf, unwrap, refName, renderFields, renderParameters, type Components } from './reference-fields.ts'
import { introSections, renderIntro } from './reference-intro.ts'
import { referenceStyle } from './reference-style.ts'

interface Described {
  readonly parameters?: readonly JsonObject[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: JsonObject }>> }
  readonly responses: Readonly<Record<string, { content: Readonly<Record<string, { readonly schema: JsonObject }>> }>>
}

interface Operation {
  readonly id: string
  readonly endpoint: Endpoint
  readonly described: Described
}

export function renderReference(): string {
  const { paths, components } = describeApi('all') as {
    paths: Record<string, Record<string, Described>>
    components: { schemas: Components; parameters: Components }
  }
  const operations = Object.entries<Endpoint>(api).map(([id, endpoint]): Operation => {
    const described = paths[endpoint.path]?.[endpoint.method.toLowerCase()]
    if (described === undefined) throw new Error(`${id} is not in the description`)
    return { id, endpoint, described }
  })
  const groups = tags
    .map((tag) => ({ tag, operations: operations.filter(({ endpoint }) => endpoint.tag === tag) }))
    .filter((group) => group.operations.length > 0)
  const sections = groups.map((group) => renderGroup(group, components))
  const records = listRecords(sections, components.schemas)
  return `<!doctype html>\n${renderPage(groups, sections, records, components.schemas).html}\n`
}

interface Group {
  readonly tag: Tag
  readonly operations: readonly Operation[]
}

function renderPage(
  groups: readonly Group[],
  sections: readonly Markup[],
  records: readonly string[],
  schemas: Components,
): Markup {
  const style = { html: `<style>${referenceStyle}</style>` }
  return html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>Berth API reference</title>
      ${style}
    </head>
    <body>
      <a class="skip" href="#start">Skip to the reference</a>
      <header id="top">
        <a class="brand" href="#top">Berth <span>API reference</span></a>
        <a class="to-menu" href="#menu">Menu</a>
      </header>
      <nav class="side" aria-label="Reference">${renderMenu(groups, records, 'open')}</nav>
      <main>
        <div class="hero">
          <h1>Berth API</h1>
          <p>GPU machines, storage volumes and models over one HTTP API, billed to the nano-dollar.</p>
        </div>
        <nav class="small" id="menu" aria-label="Contents">${renderMenu(groups, records, 'folded')}</nav>
        ${renderIntro()} ${sections} ${renderRecords(records, schemas)}
      </main>
    </body>
  </html>`
}

/** Twice on the page: beside the text, and folded above it on a phone. CSS shows one of them. */
function renderMenu(groups: readonly Group[], records: readonly string[], form: 'open' | 'folded'): Markup {
  const part = (title: string, links: readonly Markup[]) =>
    form === 'open'
      ? html`<h2>${title}</h2>
          <ul>
            ${links}
          </ul>`
      : html`<details>
          <summary>${title}</summary>
          <ul>
            ${links}
          </ul>
        </details>`
  return html`${part(
    'Basics',
    introSections.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`),
  )}
  ${groups.map(({ tag, operations }) =>
    part(
      tag,
      operations.map(
        ({ id, endpoint }) =>
          html`<li>
            <a href="#${id}">${badge(endpoint)}<span>${prose(endpoint.summary)}</span></a>
          </li>`,
      ),
    ),
  )}
  ${part(
    'Records',
    records.map((name) => html`<li><a href="#${anchorOf(name)}">${name}</a></li>`),
  )}`
}

function badge({ method }: Endpoint): Markup {
  return html`<b class="method ${method.toLowerCase()}">${method === 'DELETE' ? 'DEL' : method}</b>`
}

function renderGroup({ tag, operations }: Group, components: { schemas: Components; parameters: Components }): Markup {
  return html`<section class="group" id="${groupAnchor(tag)}">
    <h2>${tag}</h2>
    <p class="lead">${tagDescriptions[tag]}</p>
    ${operations.map((operation) => renderOperation(operation, components))}
  </section>`
}

function groupAnchor(tag: Tag): string {
  return `tag-${tag.toLowerCase().replaceAll(' ', '-')}`
}

function renderOperation(operation: Operation, components: { schemas: Components; parameters: Components }): Markup {
  const { id, endpoint, described } = operation
  const parameters = (described.parameters ?? []).map((parameter) => {
    const name = refName(parameter)
    return name === undefined ? parameter : (components.parameters[name] ?? {})
  })
  const body = described.requestBody?.content['application/json']?.schema
  return html`<article id="${id}">
    <h3><a href="#${id}">${prose(endpoint.summary)}</a></h3>
    <p class="path">${badge(endpoint)}<code>${endpoint.path}</code></p>
    <div class="columns">
      <div class="text">
        ${endpoint.description === undefined ? undefined : html`<p>${prose(endpoint.description)}</p>`}
        <p class="access">${renderAccess(endpoint.access)}</p>
        ${(['path', 'query', 'header'] as const).map((where) => renderPlace(where, parameters))}
        ${
          body === undefined
            ? undefined
            : html`<h4>Body</h4>
                ${renderFields(unwrap(body, components.schemas), 'request')}`
        }
        ${renderAnswers(operation, components.schemas)}
      </div>
      <div class="example">${renderCurl(id, endpoint)} ${renderErrors(endpoint)}</div>
    </div>
  </article>`
}

function renderAccess(access: Access): Markup {
  if (access === 'public') return html`No key needed`
  if (access === 'any-key') return html`Any key`
  if (access === 'person') return html`Signed in to the console as a person; no key`
  const scopes = access.map((scope) => html`<code>${scope}</code>`)
  return html`Key with ${join(scopes, ' or ')}`
}

const placeTitles = { path: 'In the path', query: 'In the query', header: 'Headers' } as const

function renderPlace(where: keyof typeof placeTitles, parameters: readonly JsonObject[]): Markup | undefined {
  const placeParameters = parameters.filter((parameter) => parameter['in'] === where)
  if (placeParameters.length === 0) return undefined
  return html`<h4>${placeTitles[where]}</h4>
    ${renderParameters(placeParameters)}`
}

function renderAnswers({ endpoint, described }: Operation, schemas: Components): Markup {
  const answers = Object.entries(described.responses['200']?.content ?? {})
  const costs = html`<p class="free">
    Look up <a href="#getRequestCost">the cost</a> of the request with the header <code>X-Inference-Request-Id</code>.
  </p>`
  return html`<h4>Answer</h4>
    ${answers.map(([media, { schema }]) => renderAnswer(media, schema, endpoint, schemas))}
    ${isInference(endpoint) ? costs : undefined}`
}

function renderAnswer(media: string, schema: JsonObject, endpoint: Endpoint, schemas: Components): Markup {
  if (media === 'text/event-stream' && endpoint.chunk !== undefined) {
    const chunk = (schema['contentSchema'] as JsonObject)['items'] as JsonObject
    return fold(html`${prose('Streamed: lines `data:` with')} ${refName(chunk)}`, chunk, schemas)
  }
  if (media !== 'application/json') return html`<p class="free"><code>${media}</code></p>`
  const isList = schema['type'] === 'array'
  const name = refName(isList ? (schema['items'] as JsonObject) : schema)
  return fold(html`${isList ? 'List of ' : undefined}${name ?? 'Object'}`, schema, schemas)
}

function fold(title: Markup, schema: JsonObject, schemas: Components): Markup {
  return html`<details class="answer">
    <summary><b class="ok">200</b> ${title}</summary>
    ${renderFields(unwrap(schema, schemas), 'answer')}
  </details>`
}

function renderErrors(endpoint: Endpoint): Markup {
  const anywhere = statusesAnywhere(endpoint).map((status) => html`${status}`)
  return html`<ul class="statuses">
    ${endpoint.errors.map((status) => html`<li><b>${status}</b> ${statusMeanings[status]}</li>`)}
    <li class="anywhere"><a href="#errors">${join(anywhere, ', ')}</a> as anywhere</li>
  </ul>`
}

/** The records that tables link to, directly or through other records. */
function listRecords(sections: readonly Markup[], schemas: Components): string[] {
  const linked = new Set<string>()
  const follow = (text: string) => {
    for (const [, name] of text.matchAll(/href="#record-([^"]+)"/g)) {
      const schema = name === undefined ? undefined : schemas[name]
      if (name === undefined || schema === undefined || linked.has(name)) continue
      linked.add(name)
      follow(renderFields(schema, 'answer').html)
    }
  }
  for (const section of sections) follow(section.html)
  return [...linked].sort((a, b) => (a < b ? -1 : 1))
}

function renderRecords(records: readonly string[], schemas: Components): Markup {
  return html`<section class="group" id="records">
    <h2>Records</h2>
    <p class="lead">Records that the tables above link to.</p>
    ${records.map(
      (name) =>
        html`<article id="${anchorOf(name)}">
          <h3><a href="#${anchorOf(name)}">${name}</a></h3>
          ${renderFields(schemas[name] ?? {}, 'answer')}
        </article>`,
    )}
  </section>`
}
