/** The look of the reference. Plain CSS: two schemes by `prefers-color-scheme`, one column on a phone. */
export const referenceStyle = `
:root {
  color-scheme: light dark;
  --ink: #17212b; --soft: #55626f; --faint: #64717d; --paper: #ffffff; --shade: #f5f7f9; --line: #e3e8ed;
  --accent: #0a6c86; --accent-shade: #e7f3f6; --required: #a83a16;
  --code: #f3f6f8; --block: #0f1b26; --block-ink: #dbe5ee; --block-text: #8fd6b4; --block-key: #8cc4f0;
  --get: #0a6c86; --post: #24753a; --put: #8a5a00; --delete: #b02a3b;
  --sans: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  pre { outline: 1px solid var(--line); }
  :root {
    --ink: #e2e8ee; --soft: #a3b0bc; --faint: #7f8d9a; --paper: #10171e; --shade: #161f28; --line: #26323d;
    --accent: #5fc4de; --accent-shade: #12303a; --required: #f0916c;
    --code: #1c2732; --block: #0a1118; --block-ink: #d5dfe8;
    --get: #5fc4de; --post: #74cf8c; --put: #e0b15a; --delete: #f08a96;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1.5rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 400 1rem/1.6 var(--sans); }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
code, pre { font-family: var(--mono); font-size: .86em; }
code { background: var(--code); padding: .1em .35em; border-radius: 4px; overflow-wrap: anywhere; }
p { margin: .6rem 0; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; top: 1rem; z-index: 2; background: var(--paper); padding: .5rem 1rem; }

header { position: fixed; inset: 0 auto auto 0; width: 17.5rem; padding: 1.4rem 1.5rem 1rem; background: var(--shade);
  border-right: 1px solid var(--line); z-index: 1; }
.brand { color: var(--ink); font-weight: 700; font-size: 1.1rem; letter-spacing: -.01em; }
.brand span { color: var(--faint); font-weight: 400; }
.brand:hover { text-decoration: none; }
.to-menu, nav.small { display: none; }
nav.side { position: fixed; inset: 4.1rem auto 0 0; width: 17.5rem; overflow-y: auto; padding: 0 1rem 3rem;
  background: var(--shade); border-right: 1px solid var(--line); scrollbar-width: thin; }
nav h2 { margin: 1.4rem .5rem .35rem; font-size: .74rem; font-weight: 600; color: var(--faint); letter-spacing: .04em;
  text-transform: uppercase; }
nav h2:first-child { margin-top: .4rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: flex; gap: .5rem; align-items: baseline; padding: .24rem .5rem; border-radius: 6px; color: var(--soft);
  font-size: .86rem; line-height: 1.35; }
nav li a:hover { background: var(--accent-shade); color: var(--ink); text-decoration: none; }
nav li code { background: none; padding: 0; }
nav .method { flex: 0 0 2.6rem; font-size: .64rem; }

main { margin-left: 17.5rem; padding: 2.6rem clamp(1.25rem, 4vw, 3.5rem) 6rem; max-width: 88rem; }
.hero h1 { margin: 0; font-size: 2.3rem; line-height: 1.15; letter-spacing: -.025em; }
.hero p { margin: .5rem 0 0; color: var(--soft); font-size: 1.12rem; max-width: 46rem; }
section.intro { margin-top: 2.6rem; }
section.intro > h2 { margin: 0 0 .4rem; font-size: 1.3rem; letter-spacing: -.012em; }
section.intro p { max-width: 46rem; }
section.intro h3 { margin: .6rem 0 0; font-size: .92rem; font-weight: 600; }
section.group { margin-top: 4.5rem; }
section.group > h2 { margin: 0; font-size: 1.75rem; line-height: 1.2; letter-spacing: -.02em; }
.lead { margin: .3rem 0 0; color: var(--soft); font-size: 1.05rem; }
article { margin-top: 2.2rem; padding-top: 2rem; border-top: 1px solid var(--line); }
article h3 { margin: 0; font-size: 1.18rem; line-height: 1.35; letter-spacing: -.01em; }
article h3 a { color: inherit; }
article h3 code { font-size: .9em; }
article:target h3 a { color: var(--accent); }
h4 { margin: 1.5rem 0 .3rem; font-size: .8rem; font-weight: 600; color: var(--faint); letter-spacing: .04em;
  text-transform: uppercase; }
.path { display: flex; gap: .6rem; align-items: baseline; margin: .35rem 0 .2rem; }
.path code { background: none; padding: 0; font-size: .92rem; }
.method { font: 600 .72rem/1 var(--mono); letter-spacing: .02em; color: var(--get); }
.method.post { color: var(--post); } .method.put, .method.patch { color: var(--put); } .method.delete { color: var(--delete); }
.path .method { font-size: .82rem; }
.columns { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem 2.5rem; align-items: start; }
.access { display: inline-block; margin: .5rem 0 0; color: var(--soft); font-size: .88rem; }
.access code { color: var(--accent); background: var(--accent-shade); }

table { width: 100%; border-collapse: collapse; font-size: .9rem; line-height: 1.5; table-layout: fixed; }
thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
td { padding: .55rem .75rem .55rem 0; border-top: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
tr:first-child td { border-top: 0; }
col.field { width: 38%; } col.type { width: 24%; }
td:nth-child(1) { padding-right: .4rem; } td:nth-child(2) { color: var(--soft); } td:nth-child(3) { padding-right: 0; }
.name { background: none; padding: 0; font-size: .8rem; font-weight: 600; }
.required, .optional { display: block; color: var(--required); font-size: .76rem; line-height: 1.3; }
.optional { color: var(--faint); }
.limit { color: var(--soft); }
.choices code { white-space: nowrap; }
.default { display: block; }
details.choices { display: inline; } details.choices[open] { display: block; }
.depth-1 td:first-child { padding-left: 1.1rem; } .depth-2 td:first-child { padding-left: 2.2rem; }
.depth-3 td:first-child { padding-left: 3.3rem; } .depth-4 td:first-child { padding-left: 4.4rem; }
.variant td { padding-top: .9rem; color: var(--soft); font-size: .84rem; }
.scopes { max-width: 46rem; margin-top: .8rem; } .scopes td { padding-block: .35rem; } .scopes td:first-child { width: 11rem; }
#records table, #records details { max-width: 52rem; }
.free { color: var(--soft); font-size: .9rem; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
summary:hover { color: var(--ink); }
.answer { border: 1px solid var(--line); border-radius: 8px; margin-top: .4rem; }
.answer > summary { padding: .45rem .8rem; }
.answer > table, .answer > .free { margin: 0; border-top: 1px solid var(--line); }
.answer td, #records td { padding-block: .4rem; }
.answer td { padding-left: .8rem; } .answer td:nth-child(n+2) { padding-left: 0; }
.answer .depth-1 td:first-child { padding-left: 1.8rem; } .answer .depth-2 td:first-child { padding-left: 2.8rem; }
.answer .depth-3 td:first-child { padding-left: 3.8rem; } .answer .depth-4 td:first-child { padding-left: 4.8rem; }
.answer > .free { padding: .5rem .8rem; }
.ok { color: var(--post); font-weight: 600; }

pre { margin: .6rem 0 0; padding: .9rem; overflow-x: auto; border-radius: 9px; background: var(--block);
  color: var(--block-ink); font-size: .76rem; line-height: 1.6; tab-size: 2; }
pre.curl { white-space: pre-wrap; overflow-wrap: anywhere; }
pre code { background: none; padding: 0; font-size: inherit; overflow-wrap: normal; }
pre i { font-style: normal; color: var(--block-text); }
pre var { font-style: normal; color: var(--block-key); }
.statuses { list-style: none; margin: .9rem 0 0; padding: 0; font-size: .84rem; line-height: 1.7; color: var(--soft); }
.statuses b { display: inline-block; width: 2.4rem; color: var(--ink); font-weight: 600; font-variant-numeric: tabular-nums; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: .5rem 1.5rem; }

@media (min-width: 75rem) {
  .columns { grid-template-columns: minmax(0, 1fr) minmax(0, 28rem); }
  .example, section.intro .columns > pre { position: sticky; top: 1.5rem; }
  .columns > div > :first-child, .example > pre { margin-top: .5rem; }
}
@media (max-width: 56rem) {
  html { scroll-padding-top: 4.2rem; }
  header { position: sticky; inset: 0 0 auto; width: auto; display: flex; justify-content: space-between;
    align-items: baseline; padding: .85rem 1.25rem; border: 0; border-bottom: 1px solid var(--line); background: var(--paper); }
  nav.side { display: none; }
  .to-menu, nav.small { display: block; }
  nav.small { margin: 1.6rem 0 0; border: 1px solid var(--line); border-radius: 9px; }
  nav.small details + details { border-top: 1px solid var(--line); }
  nav.small summary { padding: .7rem .9rem; color: var(--ink); font-size: .95rem; }
  nav.small ul { padding: 0 .4rem .6rem; }
  nav.small li a { padding-block: .45rem; font-size: .92rem; }
  main { margin-left: 0; padding-top: 1.6rem; }
  .hero h1 { font-size: 1.9rem; }
}
@media (max-width: 40rem) {
  table:not(.scopes), table:not(.scopes) tbody, table:not(.scopes) tr, table:not(.scopes) td { display: block; width: auto; }
  table:not(.scopes) tr { padding: .6rem 0; border-top: 1px solid var(--line); }
  table:not(.scopes) tr:first-child { border-top: 0; }
  table:not(.scopes) td { border: 0; padding: 0 !important; }
  table:not(.scopes) td:first-child { display: flex; gap: .6rem; align-items: baseline; }
  td.type { font-size: .84rem; }
  tr.depth-1 { margin-left: 1rem; } tr.depth-2 { margin-left: 2rem; } tr.depth-3 { margin-left: 3rem; } tr.depth-4 { margin-left: 4rem; }
  .answer table { padding: 0 .9rem; }
  .scopes td:first-child { width: 8.5rem; }
}
@media print { nav, header { display: none; } main { margin: 0; } pre { white-space: pre-wrap; } }
`
