/** The fields of a provider, the same for the operator's and that of an account. */
const kinds = [
  { value: 'oidc', label: 'OpenID Connect', hint: 'Google, Entra, Keycloak, Okta and others.' },
  { value: 'github', label: 'GitHub', hint: 'Needs an OAuth app of GitHub.' },
] as const

export function providerFields(kind: string) {
  return [
    ['kind', { label: 'Kind', choices: kinds }],
    ['name', { label: 'Name', placeholder: 'Example Corp' }],
    ...(kind === 'github'
      ? []
      : ([['issuer', { label: 'Issuer', placeholder: 'https://login.example.com' }]] as const)),
    ['clientId', { label: 'Client ID' }],
    ['clientSecret', { label: 'Client secret', as: 'password' }],
    ['requiredDomain', { label: 'Required domain', placeholder: 'example.com' }],
  ] as const
}
