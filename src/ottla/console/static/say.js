// A sentence for people who listen to the page.
export function say(sentence) {
  const said = document.getElementById("said");
  if (said) said.textContent = sentence;
}
