/** The places that repeat the version of package.json. */

/** Each names the version at least once, as `berth:0.1.0`, `berth-0.1.0`, `version: 0.1.0` or `version = "0.1.0"`. */
export const versionedFiles = [
  'deploy/compose.yaml',
  'deploy/helm/berth/Chart.yaml',
  'docs/install.md',
  'docs/kubernetes.md',
  'docs/serving.md',
  'python/pyproject.toml',
] as const

/** Only versions of Berth: packages of others may have the same number. */
function ours(version: string): RegExp {
  return new RegExp(
    `(berth[:-]|engine:|[vV]ersion: |version = "|BERTH_VERSION:-)${version.replaceAll('.', String.raw`\.`)}(?![\\d.]*\\d)`,
    'g',
  )
}

export function withVersion(text: string, from: string, to: string): string {
  return text.replace(ours(from), `$1${to}`)
}

export function hasVersion(text: string, version: string): boolean {
  return ours(version).test(text)
}

/** The section `Unreleased` becomes that of the version; an empty one takes its place. */
export function dateSection(changelog: string, version: string, day: string): string {
  if (!changelog.includes('## Unreleased\n')) throw new Error('CHANGELOG.md has no section Unreleased')
  return changelog.replace('## Unreleased\n', `## Unreleased\n\n## ${version} (${day})\n`)
}
