// The code of an invitation is in the part of the address that browsers do not send. It is moved into the form, so that
// neither the history nor a screen that is shared keeps it.
const code = document.getElementById("code");
const given = decodeURIComponent(location.hash.slice(1));
if (given) {
  code.value = given;
  code.readOnly = true;
  history.replaceState(null, "", location.pathname);
  document.getElementById("password").focus();
}
